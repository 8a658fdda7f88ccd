import { Statements } from '../contract/sql.ts';
import type { Member } from '../parts/members/members.ts';
import { PostgresSql } from '../drivers/postgres/postgres-sql.ts';
import { NEWEST_VERSION } from '../migrations/index.ts';
import { MemberTable } from '../parts/members/member-table.ts';
import type { Finding } from './finding.ts';

/** Checks that an engine answers; the caller chooses the request. @returns the fault, or null */
export type AskEngine = (engine: Member & { readonly url: string }) => Promise<string | null>;

/**
 * Yields a finding per process that shares the database, and one per mismatch between them. Only reads.
 * @param version of this release
 * @param askEngine default: engines are not contacted
 */
export async function* memberFindings(
  url: string,
  { version, askEngine }: { readonly version: string; readonly askEngine?: AskEngine },
): AsyncGenerator<Finding> {
  // A database of another release has other tables.
  if ((await PostgresSql.versionOf(url)) !== NEWEST_VERSION) return;
  const { members, waiting, now } = await PostgresSql.look(url, async (sql, clock) => ({
    members: await new MemberTable(new Statements(sql)).list(clock),
    waiting: await waitingJobs(new Statements(sql)),
    now: clock,
  }));
  for (const member of members) yield { name: 'member', subject: lineOf(member, now), problem: member.machineTrouble };
  if (members.length > 0) {
    yield { name: 'members_versions', subject: 'releases of the members', problem: versionProblem(members, version) };
    yield { name: 'members_models', subject: 'base models of the members', problem: digestProblem(members) };
  }
  for (const member of members) {
    if (member.role !== 'engine' || member.url === null || askEngine === undefined) continue;
    const problem = await askEngine({ ...member, url: member.url });
    yield { name: 'member_reached', subject: `engine at ${member.url}`, problem };
  }
  const trained = new Set(
    members.filter(({ role }) => role === 'trainer').flatMap(({ baseModels }) => baseModels.map(({ id }) => id)),
  );
  yield {
    name: 'waiting_jobs',
    subject: 'waiting jobs',
    problem: waitingProblem(
      waiting.filter(({ base_model: baseModel }) => !trained.has(baseModel)),
      now,
    ),
  };
}

type Waiting = { base_model: string; num_jobs: number; since: number };

function waitingJobs(sql: Statements): Promise<Waiting[]> {
  return sql.all<Waiting>(
    `select m.base_model as base_model, count(*) as num_jobs, min(j.created_at) as since
     from jobs j join models m on m.id = j.model_id
     where j.status = 'queued' and j.paused_at is null group by m.base_model order by m.base_model`,
  );
}

function lineOf(member: Member, now: number): string {
  const { id, role, url, version, leaseExpiresAt, baseModels, isDraining } = member;
  const models = baseModels.map(
    (model) => model.id + (model.fileDigest === null ? '' : ` (sha256 ${model.fileDigest.slice(0, 12)}…)`),
  );
  return [
    `${role} ${id.slice(0, 8)}${url === null ? '' : ` at ${url}`}`,
    `release ${version}`,
    `lease expires in ${Math.max(0, (leaseExpiresAt - now) / 1000).toFixed(0)} s`,
    models.length === 0 ? 'no base model' : models.join(', '),
    ...(isDraining ? ['shutting down'] : []),
  ].join(', ');
}

function versionProblem(members: readonly Member[], version: string): string | null {
  const versions = [...new Set([...members.map((member) => member.version), version])].toSorted();
  if (versions.length === 1) return null;
  return `several releases are running: ${versions.join(', ')} (this program: ${version}). Expected only during an update; finish it so that all use one release`;
}

function digestProblem(members: readonly Member[]): string | null {
  const digests = new Map<string, Set<string>>();
  for (const { id, fileDigest } of members.flatMap(({ baseModels }) => baseModels)) {
    if (fileDigest === null) continue;
    digests.set(id, (digests.get(id) ?? new Set()).add(fileDigest));
  }
  const mixed = [...digests].filter(([, files]) => files.size > 1).map(([id]) => id);
  if (mixed.length === 0) return null;
  return `the model file of ${mixed.join(', ')} differs between processes, so trained weights do not match the sampler. Use the same file everywhere`;
}

function waitingProblem(waiting: readonly Waiting[], now: number): string | null {
  if (waiting.length === 0) return null;
  const words = waiting.map(
    ({ base_model: model, num_jobs: number, since }) =>
      `${number} for ${model}, oldest waiting ${Math.max(0, (now - since) / 1000).toFixed(0)} s`,
  );
  return `no trainer has their base model (${words.join('; ')}). Start one with --role trainer and that --model`;
}
