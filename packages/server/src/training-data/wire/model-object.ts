import type { ModelObject } from '@trainyard/protocol';
import type { Model } from '@trainyard/store';

import { toLoraObject } from './lora.ts';

export function toModelObject(model: Model): ModelObject {
  return {
    id: model.id,
    entity: model.entity,
    project: model.project,
    name: model.name,
    base_model: model.baseModel,
    run_id: model.runId,
    lora: toLoraObject(model),
  };
}
