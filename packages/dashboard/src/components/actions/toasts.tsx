import './toasts.css';
import { createContext, type ReactNode, useCallback, useContext, useState } from 'react';

import { Notice, type Tone } from '../notice.tsx';
import { shownName } from '../shown-name.ts';

const SHOWN_MS = 6_000;

type ShowToast = (text: string, tone?: Tone) => void;
const ToastContext = createContext<ShowToast>(() => undefined);

/** Short notices in the corner of the page about actions just done. */
export function Toasts({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<readonly { id: number; text: string; tone: Tone }[]>([]);
  const show = useCallback<ShowToast>((text, tone = 'plain') => {
    const id = performance.now();
    setToasts((before) => [...before, { id, text, tone }]);
    setTimeout(() => setToasts((before) => before.filter((toast) => toast.id !== id)), SHOWN_MS);
  }, []);
  return (
    <ToastContext value={show}>
      {children}
      <div className="toasts">
        {toasts.map(({ id, text, tone }) => (
          <Notice key={id} tone={tone}>
            {shownName(text)}
          </Notice>
        ))}
      </div>
    </ToastContext>
  );
}

export function useToast(): ShowToast {
  return useContext(ToastContext);
}
