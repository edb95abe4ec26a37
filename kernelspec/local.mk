# kernelspec
