/* Y = relu(scale · conv(X, W) + bias) by the cuDNN frontend's C++ headers: HALF tensors in NHWC, computed in FLOAT.
 * The plan is executed on a stream, captured there, and put into a CUDA graph of its own, which then gets other memory.
 *
 *   g++ -std=c++17 -O2 examples/cudnn/convolution.cpp -o convolution -I"$FRONTEND/include" -I"$CUDNN/include" \
 *       -I"$CUDA/include" -L"$FOLDER" -lcudnn -L"$CUDA/lib64" -lcudart -lnvrtc
 *   LD_LIBRARY_PATH="$FOLDER:$CUDA/lib64" ./convolution
 *
 * FOLDER has the library (libcudnn.so, libcudnn.so.9), CUDNN its headers; FRONTEND is NVIDIA/cudnn-frontend of GitHub.
 */
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace fe = cudnn_frontend;

// X is [N,C,H,W], the filter [K,C,R,S]. The padding keeps H and W.
constexpr int64_t N = 4, C = 64, H = 28, W = 28, K = 32, R = 3, S = 3, PADDING = 1;

// ---- Statuses: one way out for all that fails ----

void expect(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

void expect(cudnnStatus_t status) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw std::runtime_error(std::string(cudnnGetErrorString(status)) + ": " + fe::detail::get_last_error_string_());
}

void expect(fe::error_t error) {
    if (error.is_bad()) throw std::runtime_error(error.get_message());
}

// ---- What is owned ----

// Calls a function for an object when it goes.
template <auto Destroy>
struct Destroyer {
    template <typename T>
    void operator()(T* object) const { Destroy(object); }
};
using Handle = std::unique_ptr<cudnnContext, Destroyer<cudnnDestroy>>;
using Stream = std::unique_ptr<CUstream_st, Destroyer<cudaStreamDestroy>>;
using CudaGraph = std::unique_ptr<CUgraph_st, Destroyer<cudaGraphDestroy>>;
using Executable = std::unique_ptr<CUgraphExec_st, Destroyer<cudaGraphExecDestroy>>;
using Memory = std::unique_ptr<void, Destroyer<cudaFree>>;

// What a function creates that writes it to its first argument.
template <typename Owner, typename Function, typename... Arguments>
Owner make(Function function, Arguments... arguments) {
    typename Owner::pointer made = nullptr;
    expect(function(&made, arguments...));
    return Owner(made);
}

Memory device_memory(int64_t bytes) {
    void* memory = nullptr;
    if (bytes > 0) expect(cudaMalloc(&memory, bytes));
    return Memory(memory);
}

Memory on_device(const std::vector<__half>& values) {
    Memory memory = device_memory(values.size() * sizeof(__half));
    expect(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(__half), cudaMemcpyHostToDevice));
    return memory;
}

// ---- The graph ----

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

struct Convolution {
    fe::graph::Graph graph;
    Tensor x, w, scale, bias, y;

    Convolution() {
        graph.set_io_data_type(fe::DataType_t::HALF)
            .set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(fe::DataType_t::FLOAT);
        x = channels_last("x", {N, C, H, W});
        w = channels_last("w", {K, C, R, S});
        scale = channels_last("scale", {1, K, 1, 1});
        bias = channels_last("bias", {1, K, 1, 1});
        const auto mode = [](fe::PointwiseMode_t mode) { return fe::graph::Pointwise_attributes().set_mode(mode); };
        const auto convolution = fe::graph::Conv_fprop_attributes()
            .set_padding({PADDING, PADDING}).set_stride({1, 1}).set_dilation({1, 1});
        y = graph.conv_fprop(x, w, convolution);
        y = graph.pointwise(y, scale, mode(fe::PointwiseMode_t::MUL));
        y = graph.pointwise(y, bias, mode(fe::PointwiseMode_t::ADD));
        y = graph.pointwise(y, mode(fe::PointwiseMode_t::RELU_FWD));
        y->set_output(true);
    }

    // The best plan that can fill a CUDA graph.
    void build(cudnnHandle_t handle) {
        expect(graph.validate());
        expect(graph.build_operation_graph(handle));
        expect(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
        graph.select_behavior_notes({fe::BehaviorNote_t::SUPPORTS_CUDA_GRAPH_NATIVE_API});
        expect(graph.check_support());
        expect(graph.build_plans());
    }

private:
    Tensor channels_last(const char* name, const std::vector<int64_t>& dim) {
        return graph.tensor(fe::graph::Tensor_attributes().set_name(name).set_dim(dim).set_stride(
            {dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1]}));
    }
};

// ---- The numbers, as they lie in memory: X is N,H,W,C, the filter K,R,S,C, Y is N,H,W,K ----

std::vector<__half> random_values(int64_t count) {
    static std::mt19937 generator(1);
    std::uniform_real_distribution<float> distribution(-1, 1);
    std::vector<__half> values(count);
    for (__half& value : values) value = __float2half(distribution(generator));
    return values;
}

struct Numbers {
    std::vector<__half> x = random_values(N * H * W * C), w = random_values(K * R * S * C);
    std::vector<__half> scale = random_values(K), bias = random_values(K);
};

// A result, and how far from it one in FLOAT that was rounded to HALF may lie.
struct Expected { double value, tolerance; };

std::vector<Expected> reference(const Numbers& numbers) {
    const std::vector<double> x(numbers.x.begin(), numbers.x.end()), w(numbers.w.begin(), numbers.w.end());
    std::vector<Expected> y;
    for (int64_t n = 0; n < N; ++n)
        for (int64_t i = 0; i < H; ++i)
            for (int64_t j = 0; j < W; ++j)
                for (int64_t k = 0; k < K; ++k) {
                    double sum = 0, magnitude = 0;
                    for (int64_t r = 0; r < R; ++r)
                        for (int64_t s = 0; s < S; ++s) {
                            const int64_t row = i + r - PADDING, column = j + s - PADDING;
                            if (row < 0 || row >= H || column < 0 || column >= W) continue;
                            const double* pixel = &x[((n * H + row) * W + column) * C];
                            const double* filter = &w[((k * R + r) * S + s) * C];
                            for (int64_t c = 0; c < C; ++c) {
                                sum += pixel[c] * filter[c];
                                magnitude += std::abs(pixel[c] * filter[c]);
                            }
                        }
                    const double scale = __half2float(numbers.scale[k]), bias = __half2float(numbers.bias[k]);
                    const double value = std::max(scale * sum + bias, 0.0);
                    // Each step in FLOAT is wrong by at most 2⁻²³ of all magnitudes (twice what rounding costs: tensor
                    // cores may cut bits off), rounding to HALF by 2⁻¹¹ of the result, or 2⁻²⁵ where it is tiny.
                    const double steps = (R * S * C + 2) * 0x1p-23 * (std::abs(scale) * magnitude + std::abs(bias));
                    y.push_back({value, steps + 0x1p-11 * value + 0x1p-25});
                }
    return y;
}

// Whether Y is right; prints its largest error.
bool is_right(const char* way, const void* y, const std::vector<Expected>& expected) {
    std::vector<__half> values(expected.size());
    expect(cudaMemcpy(values.data(), y, values.size() * sizeof(__half), cudaMemcpyDeviceToHost));
    double largest = 0;
    int64_t wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        const double found = __half2float(values[i]);
        const double error = std::isnan(found) ? INFINITY : std::abs(found - expected[i].value);
        largest = std::max(largest, error);
        wrong += error > expected[i].tolerance;
    }
    std::printf("%s: largest error %.3g; %lld of %zu values beyond the tolerance\n", way, largest,
                static_cast<long long>(wrong), values.size());
    return wrong == 0;
}

// ---- The program ----

bool run() {
    const Handle handle = make<Handle>(cudnnCreate);
    const Stream stream = make<Stream>(cudaStreamCreate);
    expect(cudnnSetStream(handle.get(), stream.get()));

    Convolution convolution;
    convolution.build(handle.get());
    std::string name;
    expect(convolution.graph.get_plan_name(name));
    int64_t bytes = 0;
    expect(convolution.graph.get_workspace_size(bytes));
    std::printf("plan %s, %lld bytes of workspace\n", name.c_str(), static_cast<long long>(bytes));

    const Numbers numbers;
    const std::vector<Expected> expected = reference(numbers);
    const Memory x = on_device(numbers.x), w = on_device(numbers.w);
    const Memory scale = on_device(numbers.scale), bias = on_device(numbers.bias);
    const size_t y_bytes = expected.size() * sizeof(__half);
    const Memory y = device_memory(y_bytes), other = device_memory(y_bytes);
    const Memory workspace = device_memory(bytes);
    std::unordered_map<Tensor, void*> pack = {
        {convolution.x, x.get()}, {convolution.w, w.get()}, {convolution.scale, scale.get()},
        {convolution.bias, bias.get()}, {convolution.y, y.get()},
    };
    const auto execute = [&] { expect(convolution.graph.execute(handle.get(), pack, workspace.get())); };
    const auto launch = [&](const Executable& executable) { expect(cudaGraphLaunch(executable.get(), stream.get())); };
    // Fills Y with NaN, has it computed in some way, and looks at it.
    const auto is_right_after = [&](const char* way, void* result, const std::function<void()>& compute) {
        expect(cudaMemsetAsync(result, 0xff, y_bytes, stream.get()));
        compute();
        expect(cudaStreamSynchronize(stream.get()));
        return is_right(way, result, expected);
    };
    bool right = is_right_after("executed", y.get(), execute);

    expect(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    execute();
    const auto end_capture = [&](cudaGraph_t* graph) { return cudaStreamEndCapture(stream.get(), graph); };
    const CudaGraph captured = make<CudaGraph>(end_capture);
    const Executable replay = make<Executable>(cudaGraphInstantiateWithFlags, captured.get(), 0);
    right &= is_right_after("captured", y.get(), [&] { launch(replay); });

    const CudaGraph populated = make<CudaGraph>(cudaGraphCreate, 0);
    expect(convolution.graph.populate_cuda_graph(handle.get(), pack, workspace.get(), populated.get()));
    const Executable executable = make<Executable>(cudaGraphInstantiateWithFlags, populated.get(), 0);
    right &= is_right_after("populated", y.get(), [&] { launch(executable); });

    pack[convolution.y] = other.get();
    expect(convolution.graph.update_cuda_graph(handle.get(), pack, workspace.get(), populated.get()));
    cudaGraphExecUpdateResultInfo outcome;
    expect(cudaGraphExecUpdate(executable.get(), populated.get(), &outcome));
    right &= is_right_after("updated", other.get(), [&] { launch(executable); });
    return right;
}

int main() {
    try {
        return run() ? EXIT_SUCCESS : EXIT_FAILURE;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
}
