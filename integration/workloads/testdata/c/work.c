#include "work.h"

long work(long n)
{
	return n < 2 ? n : work(n - 1) + work(n - 2);
}
