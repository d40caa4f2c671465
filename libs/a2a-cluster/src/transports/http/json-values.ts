const [QUOTE, BACKSLASH, COMMA, LIST, OBJECT] = ['"', '\\', ',', '[', '{'].map((char) => char.charCodeAt(0));

/**
 * Whether a JSON text holds more values than so many, told without parsing it: a comma or an opening bracket outside of
 * texts begins one. It takes some 2 ms for each MiB, and ends with the first value too many.
 */
export function hasMoreValues(json: Uint8Array, limit: number): boolean {
  if (json.length <= limit) return false;
  let count = 0;
  let inText = false;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (inText) {
      if (byte === BACKSLASH) at += 1;
      else if (byte === QUOTE) inText = false;
    } else if (byte === QUOTE) inText = true;
    else if (byte === COMMA || byte === LIST || byte === OBJECT) {
      count += 1;
      if (count > limit) return true;
    }
  }
  return false;
}
