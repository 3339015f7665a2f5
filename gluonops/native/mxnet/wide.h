// Integers that do not wrap round.
#pragma once

#include <stdint.h>

#include <string>

namespace gluonops {

// An integer that stays at its largest value instead of wrapping round. Products of attributes may be of any size, and
// a divisor that has wrapped round to zero would end the process.
class Wide {
 public:
    Wide(int64_t value) : value_(value) {}   // NOLINT: numbers in expressions become wide by themselves

    friend Wide operator*(Wide a, Wide b)
    {
        __int128 product;
        return __builtin_mul_overflow(a.value_, b.value_, &product) ? largest((a.value_ < 0) != (b.value_ < 0))
                                                                    : Wide(product, 0);
    }
    friend Wide operator+(Wide a, Wide b)
    {
        __int128 sum;
        return __builtin_add_overflow(a.value_, b.value_, &sum) ? largest(a.value_ < 0) : Wide(sum, 0);
    }
    friend Wide operator-(Wide a, Wide b) { return a + Wide(-b.value_, 0); }
    friend Wide operator/(Wide a, Wide b) { return Wide(a.value_ / b.value_, 0); }
    friend Wide operator%(Wide a, Wide b) { return Wide(a.value_ % b.value_, 0); }
    friend bool operator==(Wide a, Wide b) { return a.value_ == b.value_; }
    friend bool operator<(Wide a, Wide b) { return a.value_ < b.value_; }
    friend bool operator>(Wide a, Wide b) { return a.value_ > b.value_; }

    int64_t narrow() const { return int64_t(value_); }   // It has to fit.

    std::string text() const
    {
        std::string digits;
        for (__int128 rest = value_; rest || digits.empty(); rest /= 10)
            digits += char('0' + (rest % 10 < 0 ? -(rest % 10) : rest % 10));
        if (value_ < 0)
            digits += '-';
        return std::string(digits.rbegin(), digits.rend());
    }

 private:
    Wide(__int128 value, int) : value_(value) {}
    static Wide largest(bool negative)
    {
        const __int128 most = __int128(~(unsigned __int128)(0) >> 1);
        return Wide(negative ? -most : most, 0);
    }
    __int128 value_;
};

}  // namespace gluonops
