"""How a kernel is compiled and launched on a GPU: its source, the record of its arguments, NVRTC and ``mx.rtc``."""
