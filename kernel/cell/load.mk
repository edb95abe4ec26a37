# loading
