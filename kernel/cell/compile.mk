# compiling
