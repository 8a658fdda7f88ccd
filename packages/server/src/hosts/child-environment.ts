/** The environment variables passed to a child: where programs and libraries are, how people write, and what computing and debugging libraries read. */
const PASSED = [
  'HOME',
  'LANG',
  'LANGUAGE',
  'NODE_COMPILE_CACHE',
  'NODE_V8_COVERAGE',
  'PATH',
  'SYSTEMROOT',
  'TEMP',
  'TMP',
  'TMPDIR',
  'TZ',
  'USER',
  'WINDIR',
];
const PASSED_PREFIXES = ['DYLD_', 'GGML_', 'GOMP_', 'KMP_', 'LC_', 'LD_', 'LLAMA_', 'OMP_', 'ORT_'];

/** The environment of this process without everything else, such as keys: a child is told what it needs by its options. */
export function childEnvironment(environment: NodeJS.ProcessEnv = process.env): Record<string, string> {
  const passed = Object.entries(environment).filter(([name, value]) => {
    const known = name.toUpperCase();
    return (
      value !== undefined && (PASSED.includes(known) || PASSED_PREFIXES.some((prefix) => known.startsWith(prefix)))
    );
  });
  return Object.fromEntries(passed) as Record<string, string>;
}
