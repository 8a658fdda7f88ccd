import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { testModel } from './model.ts';

/**
 * A service for tests of the code around the model: processes, jobs, files, clients. The model is small, cut
 * out of the default one, with the same name. For tests of the model's text or learning, {@link ownService}
 * serves the model itself.
 * @param options As of {@link ownService}.
 * @throws As {@link ownService}.
 */
export async function smallService(options: Parameters<typeof ownService>[0] = {}): Promise<OwnService> {
  return await ownService({ ...options, environment: { TRAINYARD_MODEL: testModel().small, ...options.environment } });
}
