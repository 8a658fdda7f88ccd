/**
 * The service with another arbitration of the cores, for comparison in `npm run bench -- arbiter`: `turns` (one host
 * computes at a time, as if all threads spun) or `unshared` (no arbitration). Reads its settings only from
 * the environment.
 */
import { ComputeArbiter, type ComputePort, type ComputeSections, resolveConfig, startService } from '@trainyard/server';

/** Grants every request at once. */
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

/** The arbiter with every host declared as `alone`. */
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
