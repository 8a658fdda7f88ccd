import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { testModel } from './model.ts';

/**
 * A service of its own for tests of everything around the model: processes, jobs, files, clients. The model is small, cut out of the default one, and bears
 * its name. Where a test asks what the model says or learns, {@link ownService} serves the model itself.
 *
 * @param options As of {@link ownService}.
 * @throws As {@link ownService}.
 */
export async function smallService(options: Parameters<typeof ownService>[0] = {}): Promise<OwnService> {
  return await ownService({ ...options, environment: { TRAINYARD_MODEL: testModel().small, ...options.environment } });
}
