// Typed attributes from the strings of a graph, with the grammar and the messages of gluonops/core/attributes.py. Which
// attributes an operator has is generated from its contract.
#pragma once

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "call.h"
#include "refusal.h"

namespace gluonops {

// A string as `quoted` of gluonops/core/errors.py writes it; beyond ASCII it is taken to be printable.
inline std::string quoted(const std::string &text)
{
    const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
    std::string result(1, quote);
    for (const unsigned char c : text) {
        static const char hex[] = "0123456789abcdef";
        if (c == quote || c == '\\')
            result += std::string("\\") + char(c);
        else if (c == '\n' || c == '\r' || c == '\t')
            result += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
        else if (c < 32 || c == 127)
            result += std::string("\\x") + hex[c >> 4] + hex[c & 15];
        else
            result += char(c);
    }
    result += quote;
    int shown = 0;
    for (size_t i = 0; i < result.size(); ++i) {
        const bool starts_character = (result[i] & 0xC0) != 0x80;   // in UTF-8
        if (starts_character && shown++ == 200)
            return result.substr(0, i) + "...";
    }
    return result;
}

inline std::string stripped(const std::string &text)
{
    size_t begin = 0, end = text.size();
    while (begin < end && isspace(static_cast<unsigned char>(text[begin])))
        ++begin;
    while (end > begin && isspace(static_cast<unsigned char>(text[end - 1])))
        --end;
    return text.substr(begin, end - begin);
}

enum Parsed { NO_INTEGER, INTEGER, BEYOND_64_BITS };

// As Python's int(text), but without underscores, for what 64 bits hold.
inline Parsed parse_integer(const std::string &text, int64_t *value)
{
    const std::string digits = stripped(text);
    if (digits.empty())
        return NO_INTEGER;
    const bool negative = digits[0] == '-';
    size_t i = negative || digits[0] == '+';
    if (i == digits.size())
        return NO_INTEGER;
    bool fits = true;
    for (*value = 0; i < digits.size(); ++i) {
        if (!isdigit(static_cast<unsigned char>(digits[i])))
            return NO_INTEGER;
        const int64_t digit = digits[i] - '0';
        fits = fits && !__builtin_mul_overflow(*value, 10, value) &&
               !__builtin_add_overflow(*value, negative ? -digit : digit, value);
    }
    return fits ? INTEGER : BEYOND_64_BITS;
}

// As Python's float(text), but without underscores, for what is finite.
inline bool parse_number(const std::string &text, double *value)
{
    static const locale_t plain = newlocale(LC_ALL_MASK, "C", locale_t());
    const std::string digits = stripped(text);
    if (digits.empty() || digits.find_first_not_of("0123456789+-.eE") != std::string::npos)
        return false;
    char *end = nullptr;
    *value = strtod_l(digits.c_str(), &end, plain);
    return *end == 0 && isfinite(*value);
}

// As ast.literal_eval(text), for an integer or a tuple or list of integers.
inline Parsed parse_integers(const std::string &text, Integers *result)
{
    std::string inside = stripped(text);
    const bool bracketed = inside.size() >= 2 && ((inside.front() == '(' && inside.back() == ')') ||
                                                  (inside.front() == '[' && inside.back() == ']'));
    const bool list = bracketed && inside.front() == '[';
    if (bracketed)
        inside = stripped(inside.substr(1, inside.size() - 2));
    const bool comma = inside.find(',') != std::string::npos;
    result->is_tuple = list || comma;
    result->values.clear();
    if (inside.empty()) {   // () and []
        result->is_tuple = bracketed;
        return bracketed ? INTEGER : NO_INTEGER;
    }
    if (comma && inside.back() == ',')   // (2,)
        inside.pop_back();
    bool fits = true;
    for (size_t begin = 0; begin <= inside.size();) {
        const size_t end = std::min(inside.find(',', begin), inside.size());
        const std::string item = stripped(inside.substr(begin, end - begin));
        const std::string digits = item.substr(!item.empty() && (item[0] == '-' || item[0] == '+'));
        int64_t value;
        const Parsed parsed = parse_integer(item, &value);
        if (parsed == NO_INTEGER || (digits.size() > 1 && digits[0] == '0' && value))   // 01 is no literal
            return NO_INTEGER;
        fits = fits && parsed == INTEGER;
        result->values.push_back(value);
        begin = end + 1;
    }
    return fits ? INTEGER : BEYOND_64_BITS;
}

// The numbers of a tuple or list, with or without brackets and a comma at the end.
inline bool parse_numbers(const std::string &text, std::vector<double> *values)
{
    std::string inside = stripped(text);
    if (inside.size() >= 2 && ((inside.front() == '(' && inside.back() == ')') ||
                               (inside.front() == '[' && inside.back() == ']')))
        inside = stripped(inside.substr(1, inside.size() - 2));
    if (!inside.empty() && inside.back() == ',')
        inside.pop_back();
    values->clear();
    for (size_t begin = 0; begin <= inside.size();) {
        const size_t end = std::min(inside.find(',', begin), inside.size());
        double value;
        if (!parse_number(inside.substr(begin, end - begin), &value))
            return false;
        values->push_back(value);
        begin = end + 1;
    }
    return true;
}

// As Pairs.parse(text): pairs of finite numbers above 0.
inline bool parse_pairs(const std::string &text, std::vector<double> *values)
{
    if (!parse_numbers(text, values) || values->size() % 2)
        return false;
    for (const double value : *values)
        if (value <= 0)
            return false;
    return true;
}

// What a number may be, and how the complaint says so.
struct Bounds {
    const char *expected = "a finite number";
    double low = -INFINITY, above = -INFINITY, below = INFINITY;
};

// The attributes of a node. A complaint names them as the graph has them.
class Attributes {
 public:
    typedef std::unordered_map<std::string, std::string> Strings;

    Attributes(const char *where, const Strings &strings, std::vector<const char *> known)
        : where_(where), strings_(strings)
    {
        std::vector<std::string> unknown;
        for (const auto &item : strings) {
            const std::string &name = item.first;
            const bool internal = name.size() >= 4 && !name.compare(0, 2, "__") &&
                                  !name.compare(name.size() - 2, 2, "__");
            if (!internal && std::find(known.begin(), known.end(), name) == known.end())
                unknown.push_back(name);
        }
        if (unknown.empty())
            return;
        std::sort(unknown.begin(), unknown.end());
        std::vector<std::string> names(known.begin(), known.end());
        std::sort(names.begin(), names.end());
        std::string expected = names.empty() ? "this op takes none" : "expected ";
        for (size_t i = 0; i < names.size(); ++i)
            expected += (i ? ", " : "") + names[i];
        refuse(where, quoted(unknown[0]) + " is not an attribute; " + expected, "Check the spelling");
    }

    int64_t integer(const char *name, int64_t otherwise, int64_t low = INT64_MIN) const
    {
        const std::string *text = find(name);
        int64_t value = otherwise;
        if (!text)
            return value;
        const Parsed parsed = parse_integer(*text, &value);
        check_range(name, *text, parsed);
        if (parsed == NO_INTEGER || value < low)
            complain(name, *text, integer_text(low));
        return value;
    }

    std::optional<int64_t> optional_integer(const char *name, std::optional<int64_t> otherwise,
                                            int64_t low = INT64_MIN) const
    {
        const std::string *text = find(name);
        if (!text)
            return otherwise;
        if (*text == "None")
            return std::nullopt;
        int64_t value;
        const Parsed parsed = parse_integer(*text, &value);
        check_range(name, *text, parsed);
        if (parsed == NO_INTEGER || value < low)
            complain(name, *text, "None or " + integer_text(low));
        return value;
    }

    Integers integers(const char *name, const Integers &otherwise, int64_t low) const
    {
        const std::string *text = find(name);
        Integers result = otherwise;
        if (!text)
            return result;
        const Parsed parsed = parse_integers(*text, &result);
        check_range(name, *text, parsed);
        bool good = parsed == INTEGER;
        for (const int64_t value : result.values)
            good &= value >= low;
        if (!good)
            complain(name, *text, integer_text(low) + ", or a tuple of them");
        return result;
    }

    std::vector<double> pairs(const char *name, std::vector<double> otherwise) const
    {
        const std::string *text = find(name);
        if (text && !parse_pairs(*text, &otherwise))
            complain(name, *text, "pairs of finite numbers above 0: (w0, h0, w1, h1, ...)");
        return otherwise;
    }

    // Without a number for None, which is the default.
    std::vector<double> optional_pairs(const char *name) const
    {
        const std::string *text = find(name);
        std::vector<double> values;
        if (text && *text != "None" && !parse_pairs(*text, &values))
            complain(name, *text, "None or pairs of finite numbers above 0: (w0, h0, w1, h1, ...)");
        return values;
    }

    std::optional<std::vector<double>> optional_numbers(const char *name,
                                                        std::optional<std::vector<double>> otherwise,
                                                        const Bounds &bounds) const
    {
        const std::string *text = find(name);
        if (!text)
            return otherwise;
        if (*text == "None")
            return std::nullopt;
        std::vector<double> values;
        bool good = parse_numbers(*text, &values);
        for (const double value : values)
            good = good && value >= bounds.low;
        if (!good)
            complain(name, *text, std::string("None or ") + bounds.expected);
        for (double &value : values)
            value += 0.0;   // -0.0 becomes 0.0
        return values;
    }

    double number(const char *name, double otherwise, const Bounds &bounds) const
    {
        const std::string *text = find(name);
        double value = otherwise;
        if (text && (!parse_number(*text, &value) || value < bounds.low || value <= bounds.above ||
                     value >= bounds.below))
            complain(name, *text, bounds.expected);
        return value;
    }

    // `bounds.expected` says that None is allowed.
    std::optional<double> optional_number(const char *name, std::optional<double> otherwise,
                                          const Bounds &bounds) const
    {
        const std::string *text = find(name);
        if (!text)
            return otherwise;
        if (*text == "None")
            return std::nullopt;
        return number(name, 0, bounds);
    }

    bool boolean(const char *name, bool otherwise) const
    {
        const std::string *text = find(name);
        if (!text)
            return otherwise;
        std::string lower = *text;
        for (char &c : lower)
            c = char(tolower(static_cast<unsigned char>(c)));
        if (lower != "true" && lower != "1" && lower != "false" && lower != "0")
            complain(name, *text, "True or False");
        return lower == "true" || lower == "1";
    }

    // The number of the word.
    int choice(const char *name, int otherwise, const std::vector<std::string> &words) const
    {
        const std::string *text = find(name);
        if (!text)
            return otherwise;
        const auto word = std::find(words.begin(), words.end(), *text);
        if (word == words.end())
            complain(name, *text, alternatives(words));
        return int(word - words.begin());
    }

 private:
    const std::string *find(const char *name) const
    {
        const auto found = strings_.find(name);
        return found == strings_.end() ? nullptr : &found->second;
    }

    // `'a', 'b' or 'c'`
    static std::string alternatives(const std::vector<std::string> &words)
    {
        std::string text = quoted(words[0]);
        for (size_t i = 1; i < words.size(); ++i)
            text += (i + 1 < words.size() ? ", " : " or ") + quoted(words[i]);
        return text;
    }

    static std::string integer_text(int64_t low)
    {
        return low == INT64_MIN ? "an integer" : "an integer of at least " + std::to_string(low);
    }

    void check_range(const char *name, const std::string &text, Parsed parsed) const
    {
        if (parsed == BEYOND_64_BITS)
            complain(name, text, "an integer from -2**63 to 2**63 - 1");
    }

    [[noreturn]] void complain(const char *name, const std::string &text, const std::string &expected) const
    {
        refuse(where_, std::string(name) + " is " + quoted(text) + "; expected " + expected,
               std::string("Pass another ") + name);
    }

    const char *where_;
    const Strings &strings_;
};

}  // namespace gluonops
