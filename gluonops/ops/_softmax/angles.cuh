// What margin.inl needs, on a GPU.

__device__ inline float cosine_of_pi(float x) { return cospif(x); }   // for any x without a table in local memory
__device__ inline double cosine_of_pi(double x) { return cospi(x); }
__device__ inline float sine_of_pi(float x) { return sinpif(x); }
__device__ inline double sine_of_pi(double x) { return sinpi(x); }
__device__ inline float whole_part(float x) { return floorf(x); }
__device__ inline double whole_part(double x) { return floor(x); }
