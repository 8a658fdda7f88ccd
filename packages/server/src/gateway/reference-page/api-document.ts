import { type OpenApiDocument, openApiDocument } from '@trainyard/protocol';

import { HTTP_FAULTS } from '../../seams/faults/http-faults.ts';
import { SERVICE_VERSION } from '../../seams/contract/service-version.ts';

export function apiDocument(): OpenApiDocument {
  return openApiDocument({ version: SERVICE_VERSION, faults: HTTP_FAULTS });
}
