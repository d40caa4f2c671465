/** What a load reads of a task, in characters of JSON. */
export interface StoredLength {
  snapshot: number;
  /** The events behind the snapshot. */
  tail: number;
}

/** A shorter tail is worth no new snapshot. */
const MIN_TAIL = 64 * 1024;

/** A snapshot is renewed once the log behind it is as long as it is: a log of n events is folded and written in O(n). */
export const hasOutgrown = ({ snapshot, tail }: StoredLength): boolean => tail >= Math.max(MIN_TAIL, snapshot);
