/** What one request may hold. Beyond a limit it is refused with RequestMalformedError, which names the limit. */
export interface RequestLimits {
  /** Parts of a message. Default: 10 000, which take a hundredth of a second to read and to store. */
  maxParts: number;
  /**
   * Different tasks that a message may refer to (`referenceTaskIds`): each is read ahead of the turn, one after another.
   * Default: 20, more than a conversation between agents refers to and 20 short reads at most.
   */
  maxReferenceTasks: number;
  /**
   * Bytes of JSON of all tasks that a message refers to: the turn holds them for as long as it runs. Default: 16 MiB.
   */
  maxReferenceBytes: number;
  /**
   * JSON values (objects, lists, and what is in them) of a request's body, counted before it is parsed. Default: 250 000,
   * which are read and stored without blocking the process for longer than 100 ms.
   */
  maxValues: number;
}

export const REQUEST_DEFAULTS: RequestLimits = {
  maxParts: 10_000,
  maxReferenceTasks: 20,
  maxReferenceBytes: 16 * 1024 * 1024,
  maxValues: 250_000,
};
