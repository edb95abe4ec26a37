# runtime/cli
