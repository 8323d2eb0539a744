"""Files, processes, devices and memory: what the package needs of the machine."""
