// Runs an exported net without Python: MXNet's C predict API, which libmxnet.so of the wheel has.
//
//   predict PREFIX-symbol.json PREFIX-0000.params 1,3,224,224 INPUT OUTPUT [LIBRARY]
//
// INPUT holds the numbers of `data` as float32, without a header (numpy: array.tofile). The outputs, one after the
// other, are written to OUTPUT likewise, and their shapes are printed. LIBRARY is gluonops's, for a net exported with
// backend="native"; gluonops.native_library_path() says where it is. See README.md for how to compile it.
#include <cstdint>   // first: MXNet's header needs it and does not include it

#include <mxnet/c_predict_api.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// mxnet/c_api.h declares these, and includes more than this program needs.
extern "C" int MXLoadLib(const char *path, unsigned verbose);
extern "C" int MXNDArrayWaitAll();

namespace {

void check(int status) {
  if (status != 0) throw std::runtime_error(MXGetLastError());
}

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<uint32_t> shape_of(const std::string &text) {
  std::vector<uint32_t> shape;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    const long size = std::strtol(part.c_str(), nullptr, 10);
    if (size < 1) throw std::runtime_error("the shape " + text + " has a size below 1; expected one such as 1,3,224,224");
    shape.push_back(static_cast<uint32_t>(size));
  }
  return shape;
}

template <class Iterator>
size_t product(Iterator begin, Iterator end) {
  return std::accumulate(begin, end, size_t{1}, std::multiplies<size_t>());
}

// Owns the handle of a loaded net.
class Predictor {
 public:
  Predictor(const std::string &symbol, const std::string &parameters, const std::vector<uint32_t> &shape) {
    const char *names[] = {"data"};
    const uint32_t limits[] = {0, static_cast<uint32_t>(shape.size())};
    const int cpu = 1;
    check(MXPredCreate(symbol.c_str(), parameters.data(), static_cast<int>(parameters.size()), cpu, 0, 1, names, limits,
                       shape.data(), &handle_));
  }
  // MXNet frees in its own threads. A program that ends meanwhile crashes or hangs, now and then: so it waits.
  ~Predictor() {
    MXPredFree(handle_);
    MXNDArrayWaitAll();
  }
  Predictor(const Predictor &) = delete;
  Predictor &operator=(const Predictor &) = delete;

  void run(const std::vector<float> &data) {
    check(MXPredSetInput(handle_, "data", data.data(), static_cast<uint32_t>(data.size())));
    check(MXPredForward(handle_));
  }

  // Shape and numbers of an output; an empty shape where there is no such output.
  std::pair<std::vector<uint32_t>, std::vector<float>> output(uint32_t index) {
    uint32_t *sizes = nullptr, ndim = 0;
    if (MXPredGetOutputShape(handle_, index, &sizes, &ndim) != 0) return {};
    std::vector<uint32_t> shape(sizes, sizes + ndim);
    std::vector<float> numbers(product(shape.begin(), shape.end()));
    check(MXPredGetOutput(handle_, index, numbers.data(), static_cast<uint32_t>(numbers.size())));
    return {shape, numbers};
  }

 private:
  PredictorHandle handle_ = nullptr;
};

void predict(const std::vector<std::string> &args) {
  if (args.size() == 6) check(MXLoadLib(args[5].c_str(), 0));
  const std::string symbol = contents(args[0]), parameters = contents(args[1]);
  const auto shape = shape_of(args[2]);
  const std::string bytes = contents(args[3]);
  const size_t count = product(shape.begin(), shape.end());
  if (bytes.size() != count * sizeof(float))
    throw std::runtime_error(args[3] + " has " + std::to_string(bytes.size()) + " bytes; expected " +
                             std::to_string(count * sizeof(float)) + " for the shape " + args[2]);
  const auto *numbers = reinterpret_cast<const float *>(bytes.data());
  Predictor predictor(symbol, parameters, shape);
  predictor.run({numbers, numbers + count});
  std::ofstream out(args[4], std::ios::binary);
  for (uint32_t i = 0;; ++i) {
    const auto found = predictor.output(i);
    if (found.first.empty()) break;
    std::cout << "output " << i << ":";
    for (uint32_t size : found.first) std::cout << ' ' << size;
    std::cout << '\n';
    out.write(reinterpret_cast<const char *>(found.second.data()), found.second.size() * sizeof(float));
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + args[4]);
}

}  // namespace

int main(int argc, char **argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() != 5 && args.size() != 6) {
    std::cerr << "usage: predict SYMBOL PARAMETERS SHAPE INPUT OUTPUT [LIBRARY]\n";
    return 2;
  }
  try {
    predict(args);
  } catch (const std::exception &error) {
    std::cerr << "predict: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
