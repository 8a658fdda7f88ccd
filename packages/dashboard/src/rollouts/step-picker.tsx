import { useEffect, useState } from 'react';

import { Button } from '../components/button.tsx';

/** Selects a step of a model: the previous, the next, or by number. @param steps steps known to have data */
export function StepPicker({
  step,
  steps,
  newest,
  onStep,
}: {
  step: number;
  steps: readonly number[];
  newest: number;
  onStep: (step: number) => void;
}) {
  const [typed, setTyped] = useState(String(step));
  useEffect(() => setTyped(String(step)), [step]);
  const before = steps.findLast((other) => other < step) ?? (step > 0 && steps.length === 0 ? step - 1 : null);
  const after = steps.find((other) => other > step) ?? (step < newest ? newest : null);
  return (
    <form
      className="step-picker"
      onSubmit={(event) => {
        event.preventDefault();
        const wanted = Number(typed);
        if (typed !== '' && Number.isInteger(wanted) && wanted >= 0) onStep(wanted);
        else setTyped(String(step));
      }}
    >
      <Button look="quiet" aria-label="Previous step" disabled={before === null} onClick={() => onStep(before!)}>
        ‹
      </Button>
      <label className="inline-field">
        Step
        <input
          className="input"
          inputMode="numeric"
          value={typed}
          onChange={({ target }) => setTyped(target.value)}
          // Leaving the input unchanged selects no other step.
          onBlur={({ target }) => {
            if (typed !== String(step)) target.form?.requestSubmit();
          }}
        />
      </label>
      <Button look="quiet" aria-label="Next step" disabled={after === null} onClick={() => onStep(after!)}>
        ›
      </Button>
      <Button look="quiet" disabled={step === newest} onClick={() => onStep(newest)}>
        Newest
      </Button>
    </form>
  );
}
