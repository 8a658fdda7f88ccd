import type { Transform, TransformCallback } from 'node:stream';
import { createZstdCompress, createZstdDecompress } from 'node:zlib';

type Packer = Pick<Transform, '_transform'>;

/** Compression streams work in another thread, unknown to the event loop. */
const PACKERS: readonly Packer[] = [createZstdCompress(), createZstdDecompress()].map(
  (stream) => Object.getPrototypeOf(stream) as Packer,
);

/** @param underWay called when a thread starts; its result is called when the thread ends */
export function startPackingReports(underWay: () => () => void): void {
  for (const packer of PACKERS) {
    const { _transform: transform } = packer;
    packer._transform = function (this: Transform, chunk, encoding, callback): void {
      const over = underWay();
      const done: TransformCallback = (...result) => {
        this.off('close', over);
        over();
        callback(...result);
      };
      // A stream destroyed meanwhile never calls back.
      this.once('close', over);
      transform.call(this, chunk, encoding, done);
    };
  }
}

export function stopPackingReports(): void {
  for (const packer of PACKERS) Reflect.deleteProperty(packer, '_transform');
}
