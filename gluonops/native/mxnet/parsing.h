// Typed attributes from the strings of a graph, with the grammar and the messages of contract/attributes.py. Which
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

// Returns a string as `quoted` in gluonops/contract/errors.py writes it. Characters beyond ASCII are taken to be
// printable.
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

// What a parser says of a text.
enum Parsed { WRONG, RIGHT, BEYOND_64_BITS };

// Does what Python's int(text) does, but without underscores and for numbers of 64 bits only.
inline Parsed parse_integer(const std::string &text, int64_t *value)
{
    const std::string digits = stripped(text);
    if (digits.empty())
        return WRONG;
    const bool negative = digits[0] == '-';
    size_t i = negative || digits[0] == '+';
    if (i == digits.size())
        return WRONG;
    bool fits = true;
    for (*value = 0; i < digits.size(); ++i) {
        if (!isdigit(static_cast<unsigned char>(digits[i])))
            return WRONG;
        const int64_t digit = digits[i] - '0';
        fits = fits && !__builtin_mul_overflow(*value, 10, value) &&
               !__builtin_add_overflow(*value, negative ? -digit : digit, value);
    }
    return fits ? RIGHT : BEYOND_64_BITS;
}

// Returns the text within the brackets of a tuple or list, or else the whole text.
inline std::string without_brackets(const std::string &written)
{
    const std::string text = stripped(written);
    const bool bracketed = text.size() >= 2 && ((text.front() == '(' && text.back() == ')') ||
                                                (text.front() == '[' && text.back() == ']'));
    return bracketed ? stripped(text.substr(1, text.size() - 2)) : text;
}

// Returns the texts between the commas. There may be one more comma at the end.
inline std::vector<std::string> items_of(std::string text)
{
    if (!text.empty() && text.back() == ',')
        text.pop_back();
    std::vector<std::string> items;
    for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        items.push_back(stripped(text.substr(begin, end - begin)));
    }
    return items;
}

struct Int {
    int64_t low = INT64_MIN;

    Parsed operator()(const std::string &text, int64_t *value) const
    {
        const Parsed parsed = parse_integer(text, value);
        return parsed == RIGHT && *value < low ? WRONG : parsed;
    }
};

// Does what ast.literal_eval(text) does for an integer, or for a tuple or list of integers.
struct IntOrTuple {
    int64_t low;

    Parsed operator()(const std::string &written, Integers *result) const
    {
        const std::string text = stripped(written), inside = without_brackets(text);
        if (text.empty())
            return WRONG;
        *result = {inside.empty() || text[0] == '[' || inside.find(',') != std::string::npos, {}};
        if (inside.empty())   // () and []
            return RIGHT;
        bool fits = true, is_low = false;
        for (const std::string &item : items_of(inside)) {
            const std::string digits = item.substr(!item.empty() && (item[0] == '-' || item[0] == '+'));
            int64_t value;
            const Parsed parsed = parse_integer(item, &value);
            if (parsed == WRONG || (digits.size() > 1 && digits[0] == '0' && value))   // 01 is no literal
                return WRONG;
            fits = fits && parsed == RIGHT;
            is_low = is_low || value < low;
            result->values.push_back(value);
        }
        return !fits ? BEYOND_64_BITS : is_low ? WRONG : RIGHT;
    }
};

// Does what Python's float(text) does, but without underscores and for finite numbers only. -0.0 and subnormal numbers
// become 0.0.
struct Float {
    double low = -INFINITY, above = -INFINITY, below = INFINITY;

    Parsed operator()(const std::string &text, double *value) const
    {
        static const locale_t plain = newlocale(LC_ALL_MASK, "C", locale_t());
        const std::string digits = stripped(text);
        if (digits.empty() || digits.find_first_not_of("0123456789+-.eE") != std::string::npos)
            return WRONG;
        char *end = nullptr;
        *value = strtod_l(digits.c_str(), &end, plain) + 0.0;
        if (fpclassify(*value) == FP_SUBNORMAL)
            *value = 0;
        const bool is_good = *end == 0 && isfinite(*value) && *value >= low && *value > above && *value < below;
        return is_good ? RIGHT : WRONG;
    }
};

// The numbers of a tuple or list, with or without brackets, in groups.
struct Numbers {
    Float item;
    size_t group = 1;

    Parsed operator()(const std::string &text, std::vector<double> *values) const
    {
        values->clear();
        for (const std::string &each : items_of(without_brackets(text)))
            if (item(each, &values->emplace_back()) != RIGHT)
                return WRONG;
        return values->size() % group ? WRONG : RIGHT;
    }
};

struct Bool {
    Parsed operator()(std::string text, bool *value) const
    {
        for (char &c : text)
            c = char(tolower(static_cast<unsigned char>(c)));
        *value = text == "true" || text == "1";
        return *value || text == "false" || text == "0" ? RIGHT : WRONG;
    }
};

// One of these words, as a value of an enumeration.
struct Choice {
    std::vector<const char *> words;

    template <typename Value>
    Parsed operator()(const std::string &text, Value *value) const
    {
        const auto word = std::find(words.begin(), words.end(), text);
        *value = Value(word - words.begin());
        return word == words.end() ? WRONG : RIGHT;
    }
};

// Gives nothing for None, and otherwise what a parser gives. An empty list stands for nothing.
template <typename Parser>
struct OrNone {
    Parser parser;

    template <typename Value>
    Parsed operator()(const std::string &text, std::optional<Value> *value) const
    {
        value->reset();
        return text == "None" ? RIGHT : parser(text, &value->emplace());
    }
    Parsed operator()(const std::string &text, std::vector<double> *values) const
    {
        values->clear();
        return text == "None" ? RIGHT : parser(text, values);
    }
};
template <typename Parser> OrNone(Parser) -> OrNone<Parser>;

// The attributes of a node. A complaint names them as the graph has them.
class Attributes {
 public:
    typedef std::unordered_map<std::string, std::string> Strings;

    Attributes(const char *where, const Strings &strings, std::vector<const char *> attributes)
        : where_(where), strings_(strings)
    {
        std::vector<std::string> unknown;
        for (const auto &item : strings) {
            const std::string &name = item.first;
            const bool internal = name.size() >= 4 && !name.compare(0, 2, "__") &&
                                  !name.compare(name.size() - 2, 2, "__");
            if (!internal && std::find(attributes.begin(), attributes.end(), name) == attributes.end())
                unknown.push_back(name);
        }
        if (unknown.empty())
            return;
        std::sort(unknown.begin(), unknown.end());
        std::vector<std::string> names(attributes.begin(), attributes.end());
        std::sort(names.begin(), names.end());
        const std::string expected = listed(names, [](const std::string &name) { return name; });
        refuse(where, quoted(unknown[0]) + " is not an attribute; " +
               (names.empty() ? "this operator takes none" : "expected " + expected), "Check the spelling");
    }

    // Returns the value of an attribute, or `otherwise` if the graph leaves it out.
    template <typename Value, typename Parser>
    Value get(const char *name, Value otherwise, const char *expected, const Parser &parser) const
    {
        const auto text = strings_.find(name);
        if (text == strings_.end())
            return otherwise;
        const Parsed parsed = parser(text->second, &otherwise);
        if (parsed != RIGHT)
            complain(name, text->second, parsed == WRONG ? expected : "an integer from -2**63 to 2**63 - 1");
        return otherwise;
    }

 private:
    [[noreturn]] void complain(const char *name, const std::string &text, const char *expected) const
    {
        refuse(where_, std::string(name) + " is " + quoted(text) + "; expected " + expected,
               std::string("Pass another ") + name);
    }

    const char *where_;
    const Strings &strings_;
};

}  // namespace gluonops
