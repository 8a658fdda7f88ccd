/** Independent computations that tests of other packages compare with. */
export { keptByLlamaTopNSigma } from './llama-sampler.ts';
