import type { TinkerProfile } from '../profiles/tinker-profile.ts';
import { addressOf, type Checkpoint, readAddress } from '../transport/remote-model.ts';
import { accepted } from '../transport/session.ts';
import type { Reply, TinkerHttp } from '../transport/tinker-http.ts';
import { wireFault } from '../wire/wire-fault.ts';
import { type PeftFiles, readAdapterArchive } from './adapter-archive.ts';

/** Archives of large adapters take a while. */
const DOWNLOAD_TIMEOUT_MS = 600_000;
const MAX_REDIRECTS = 3;

/** @throws {TrainerError} */
export async function fetchAdapter(
  http: TinkerHttp,
  { archiveName }: Pick<TinkerProfile, 'archiveName'>,
  { kind, runId, name }: Checkpoint,
): Promise<PeftFiles> {
  const checkpoint = archiveName === 'bare' ? name : `${kind}/${name}`;
  let route = `training_runs/${runId}/checkpoints/${checkpoint}/archive`;
  for (let numRedirects = 0; numRedirects <= MAX_REDIRECTS; numRedirects++) {
    const reply: Reply = await http.send('GET', route, { timeoutMs: DOWNLOAD_TIMEOUT_MS });
    if (reply.status < 300 || reply.status >= 400) return readAdapterArchive(accepted(reply, 'archive').body);
    const location = reply.headers.get('location');
    if (location === null) throw wireFault('the redirect of an archive has no location');
    route = new URL(location, http.url).href;
  }
  throw wireFault('an archive has too many redirects');
}

/** Deletes if possible; a remaining checkpoint only uses space on the server. Never throws. */
export async function deleteCheckpoint(http: TinkerHttp, which: Checkpoint | string): Promise<void> {
  const checkpoint = readAddress(typeof which === 'string' ? which : addressOf(which));
  if (checkpoint === null) return;
  const { runId, kind, name } = checkpoint;
  const route = `training_runs/${runId}/checkpoints/${kind}/${name}`;
  await http.sendOnce('DELETE', route, { timeoutMs: 10_000 }).catch(() => undefined);
}
