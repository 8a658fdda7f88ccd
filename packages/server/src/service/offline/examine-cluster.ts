import { clusterFindings, type Finding, untilLost } from '@trainyard/store';

import { removalFindings } from '../../jobs/checkpoints/removal-findings.ts';
import { dataPaths } from '../../seams/data/data-directory.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { askEngine } from '../../cluster/pool/ask-engine.ts';
import { engineSecretOf } from '../settings/engine-secret.ts';
import { SERVICE_VERSION } from '../../seams/contract/service-version.ts';

/**
 * Checks the shared parts of a service, and its processes; see `clusterFindings`. Call it for a database that
 * answers.
 */
export async function* examineCluster(
  config: Pick<ServiceConfig, 'database' | 'bucket' | 'dataDirectory' | 'keepCheckpoints'>,
): AsyncGenerator<Finding> {
  yield* clusterFindings({
    database: config.database,
    blobs: config.bucket ?? { kind: 'folder', root: dataPaths(config.dataDirectory).blobs },
    version: SERVICE_VERSION,
    askEngine: ({ url }) => askEngine(url, engineSecretOf(process.env)),
  });
  yield* untilLost(removalFindings(config.database, config.keepCheckpoints));
}
