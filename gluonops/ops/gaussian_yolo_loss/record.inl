#include "../_region/truth.inl"
