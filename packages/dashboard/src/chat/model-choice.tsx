import { shownName } from '../components/shown-name.ts';
import { offeredSteps, servedNames, splitName } from './served-names.ts';

/** Chooses a model, and one of its steps. */
export function ModelChoice({
  label,
  model,
  names,
  onChoose,
}: {
  label: string;
  model: string;
  names: readonly string[];
  onChoose: (name: string) => void;
}) {
  const models = servedNames(names);
  const { name, step } = splitName(model);
  const steps = models.find((one) => one.name === name)?.steps ?? [];
  return (
    <div className="model-choice">
      <label className="field">
        {label}
        <select className="input" value={name} onChange={({ target }) => onChoose(target.value)}>
          {[...new Set([name, ...models.map((one) => one.name)])].map((one) => (
            <option key={one} value={one}>
              {shownName(one)}
            </option>
          ))}
        </select>
      </label>
      {steps.length === 0 ? null : (
        <label className="field step-choice">
          Step
          <select
            className="input"
            aria-label={`Step of ${label.toLowerCase()}`}
            value={step ?? ''}
            onChange={({ target }) => onChoose(target.value === '' ? name : `${name}:step${target.value}`)}
          >
            <option value="">latest</option>
            {offeredSteps(steps, step).map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}
