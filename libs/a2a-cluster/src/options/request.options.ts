import { requireWhole, withoutUndefined } from './rules.js';

/**
 * What one request may hold, so that none of them stops the process or fills it. A request beyond a limit is refused
 * with RequestMalformedError, which names the limit.
 */
export interface RequestLimits {
  /**
   * How many parts a message may have. A whole number of at least 1. Default: 10 000, which take a hundredth of a
   * second to read and to store.
   */
  maxParts: number;
  /**
   * How many different tasks a message may refer to (`referenceTaskIds`). They are read before the turn, one after
   * another. A whole number of at least 0. Default: 20, more than a conversation between agents refers to, and 20 short
   * reads at most.
   */
  maxReferenceTasks: number;
  /**
   * How many bytes of JSON the tasks that a message refers to may have together: the turn holds them for as long as it
   * runs. A whole number of at least 1. Default: 16 MiB.
   */
  maxReferenceBytes: number;
  /**
   * How many JSON values (objects, lists, and what is in them) a request's body may have, and how many values a request
   * over gRPC. They are counted before the body is parsed. A whole number of at least 1. Default: 250 000, which are
   * read and stored without blocking the process for longer than 100 ms.
   */
  maxValues: number;
}

export const REQUEST_DEFAULTS: RequestLimits = {
  maxParts: 10_000,
  maxReferenceTasks: 20,
  maxReferenceBytes: 16 * 1024 * 1024,
  maxValues: 250_000,
};

/** The limits with their defaults. Throws `ClusterOptionsError`. */
export function resolveRequests(given: Partial<RequestLimits> | undefined): RequestLimits {
  const requests: RequestLimits = { ...REQUEST_DEFAULTS, ...withoutUndefined(given) };
  for (const [name, limit] of Object.entries(requests)) {
    const least = name === 'maxReferenceTasks' ? 0 : 1;
    requireWhole(`requests.${name}`, limit, least, Number.MAX_SAFE_INTEGER);
  }
  return requests;
}
