/** The service with nobody who shares the cores out: what `bench:arbiter` compares with. It takes its settings from the environment alone. */
import { type ComputePort, type ComputeSections, resolveConfig, startService } from '@trainyard/server';

/** Whoever asks for the cores has them, whoever else computes. */
const unshared: ComputeSections = {
  join: (_name: string, _share: number, port: ComputePort) => ({
    request: () => port.grant(),
    release: (wantsMore) => {
      if (wantsMore) port.grant();
    },
    leave: () => undefined,
    usedMs: () => 0,
  }),
  section: () => unshared,
};

const config = resolveConfig({ flags: {}, environment: process.env, configPath: null });
const service = await startService(config, (line) => console.error(line), unshared);
console.log(`URL ${service.url}/v1`);
process.once('SIGTERM', () => void service.close());
