"""The frameworks that can run a model: small plug-ins.

A plug-in is a class without arguments that fulfils `Framework`, named in the entry-point group
`modelwright.frameworks`; the entry point's name is the frameworkType. The names of the built-in ones are reserved.
"""
