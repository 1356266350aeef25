"""The parts of what a step attends to: window, reference store, tail, and the state that carries them on."""
