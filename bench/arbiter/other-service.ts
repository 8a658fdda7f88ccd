/**
 * The service with another way to share the cores out, for `bench:arbiter` to compare with: `turns` (one host computes at a time, as if the threads of all spun) or
 * `unshared` (nobody shares them out). It takes its settings from the environment alone.
 */
import { ComputeArbiter, type ComputePort, type ComputeSections, resolveConfig, startService } from '@trainyard/server';

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

/** The arbiter, told of every host that it computes alone. */
function inTurns(): ComputeSections {
  const arbiter = new ComputeArbiter();
  const alone = (shares: Pick<ComputeSections, 'join'>): Pick<ComputeSections, 'join'> => ({
    join: (name, share, port) => {
      const member = shares.join(name, share, port);
      return { ...member, request: () => member.request('alone') };
    },
  });
  return { ...alone(arbiter), section: (name, share) => alone(arbiter.section(name, share)) };
}

const config = resolveConfig({ flags: {}, environment: process.env, configPath: null });
const arbiter = process.argv[2] === 'turns' ? inTurns() : unshared;
const service = await startService(config, (line) => console.error(line), { arbiter });
console.log(`URL ${service.url}/v1`);
process.once('SIGTERM', () => void service.close());
