import './dialog.css';
import { Dialog as Radix } from 'radix-ui';
import type { ReactNode } from 'react';

/** Something that is asked for over the page; Escape leaves it. */
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
  return (
    <Radix.Root open={isOpen} onOpenChange={(open) => (open ? undefined : onClose())}>
      <Radix.Portal>
        <Radix.Overlay className="dialog-shade" />
        <Radix.Content className="dialog" {...(description === undefined ? { 'aria-describedby': undefined } : {})}>
          <Radix.Title>{title}</Radix.Title>
          {description === undefined ? null : <Radix.Description className="soft">{description}</Radix.Description>}
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
