"""`python -m modelwright`: how the program starts its own child processes."""

from modelwright.main import main

if __name__ == "__main__":
    main()
