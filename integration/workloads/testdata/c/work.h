long work(long n);
