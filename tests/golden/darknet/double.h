/* Darknet in float64: include this before everything else (gcc -include double.h). See README.md. */
#include <assert.h>
#include <ctype.h>
#include <emmintrin.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#define STBI_NO_SIMD
#define float double
#define ceilf ceil
#define cosf cos
#define expf exp
#define fabsf fabs
#define floorf floor
#define log1pf log1p
#define logf log
#define powf pow
#define roundf round
#define sinf sin
#define sqrtf sqrt
#define tanhf tanh
