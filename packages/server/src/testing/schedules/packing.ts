import type { Transform, TransformCallback } from 'node:stream';
import { createZstdCompress, createZstdDecompress } from 'node:zlib';

type Packer = Pick<Transform, '_transform'>;

/** Streams that pack bytes and that unpack them: another thread does it, and the event loop does not tell of that. */
const PACKERS: readonly Packer[] = [createZstdCompress(), createZstdDecompress()].map(
  (stream) => Object.getPrototypeOf(stream) as Packer,
);

/** @param underWay called where a thread begins; what it returns where it has ended */
export function beginTellingOfPacking(underWay: () => () => void): void {
  for (const packer of PACKERS) {
    const { _transform: transform } = packer;
    packer._transform = function (this: Transform, chunk, encoding, callback): void {
      const over = underWay();
      const told: TransformCallback = (...result) => {
        this.off('close', over);
        over();
        callback(...result);
      };
      // One that is destroyed meanwhile calls nobody back.
      this.once('close', over);
      transform.call(this, chunk, encoding, told);
    };
  }
}

export function endTellingOfPacking(): void {
  for (const packer of PACKERS) Reflect.deleteProperty(packer, '_transform');
}
