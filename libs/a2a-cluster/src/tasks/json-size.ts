/**
 * From here on an answer is large, in bytes of JSON: room is made for it before it is read. Below it a thousand of them
 * are what one process holds easily, and they cost nothing more.
 */
export const LARGE_BYTES = 256 * 1024;

/** About how much a key, a number or a pair of brackets takes. */
const PIECE = 8;

/**
 * About how many characters of JSON a value makes, without making it: at most `enough`, at which it stops to look. Raw
 * parts are counted as they are in base64.
 */
export function jsonSize(value: unknown, enough = Infinity): number {
  let size = 0;
  const look = (at: unknown): void => {
    if (size >= enough) return;
    size += PIECE;
    if (typeof at === 'string') size += at.length;
    else if (ArrayBuffer.isView(at)) size += Math.ceil(at.byteLength / 3) * 4;
    else if (Array.isArray(at)) at.forEach(look);
    else if (typeof at === 'object' && at !== null) {
      const held = at as Record<string, unknown>;
      for (const key in held) {
        size += key.length;
        look(held[key]);
      }
    }
  };
  look(value);
  return size;
}
