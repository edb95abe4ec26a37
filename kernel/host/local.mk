# kernel/host
