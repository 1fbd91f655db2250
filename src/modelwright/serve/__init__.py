"""The model server: Open Inference Protocol v2 and the REST API of TensorFlow Serving."""
