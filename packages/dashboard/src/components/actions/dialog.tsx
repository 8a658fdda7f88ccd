import './dialog.css';
import { Dialog as Radix } from 'radix-ui';
import { type ReactNode, useRef } from 'react';
import { shownName } from '../shown-name.ts';

/**
 * A modal dialog; Escape closes it. The focus returns to the element that opened it, or to the page if that is
 * gone.
 */
export function Dialog({
  title,
  description,
  isOpen,
  onClose,
  children,
}: {
  title: string;
  description?: string;
  isOpen: boolean;
  onClose: () => void;
  children: ReactNode;
}) {
  const opener = useRef<Element | null>(null);
  return (
    <Radix.Root open={isOpen} onOpenChange={(open) => (open ? undefined : onClose())}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-shade" />
        <Radix.Content
          className="dialog"
          {...(description === undefined ? { 'aria-describedby': undefined } : {})}
          onOpenAutoFocus={() => {
            opener.current = document.activeElement;
          }}
          onCloseAutoFocus={(event) => {
            event.preventDefault();
            const { current } = opener;
            const place = current?.isConnected === true ? current : document.getElementById('main');
            if (place instanceof HTMLElement) place.focus();
          }}
        >
          <Radix.Title>{shownName(title)}</Radix.Title>
          {description === undefined ? null : (
            <Radix.Description className="soft">{shownName(description)}</Radix.Description>
          )}
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
