"""The table of converters: MXNet's operator -> function(model, call) that adds nodes and returns its output tensors."""
CONVERTERS = {}


def converts(*names):
    """Enter a converter for operators of MXNet; one tensor, or a list of them, is what it returns."""
    def enter(function):
        CONVERTERS.update(dict.fromkeys(names, function))
        return function
    return enter
