import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { blockList } from './networks.js';
import { requireDuration, requireWhole, withoutUndefined } from './rules.js';

/** How push receivers are told. The agent card says whether there are any (`capabilities.pushNotifications`). */
export interface PushOptions {
  /**
   * Networks (CIDR, such as `10.0.0.0/8`) that push may reach although they are private or reserved, and without TLS.
   * Every other receiver needs https and a public address, judged by the address that is really connected to. Default:
   * none.
   */
  allow: string[];
  /**
   * How long a receiver may take to answer one notification, in ms. A whole number from 1 to 2^31 - 1. Default: 10 000.
   */
  timeoutMs: number;
  /**
   * After how many failures in a row a receiver is given up. One that answers 410 is given up at once. A whole number
   * from 1 to 1 000. Default: 10, so that with the other defaults a receiver that is down is given up after 4 to 10
   * minutes.
   */
  maxAttempts: number;
  /**
   * How long the first retry waits, in ms. Each further one waits twice as long as the one before it, at most 5 min;
   * jitter shortens each pause by up to half. A whole number from 1 to 2^31 - 1. Default: 1 000.
   */
  backoffMs: number;
  /**
   * How many receivers one replica tells at the same time. A receiver that has not answered after 250 ms gives its
   * place to another one, until four times as many are waited for. A whole number from 1 to 10 000. Default: 256.
   */
  maxConcurrentDeliveries: number;
}

export const PUSH_DEFAULTS: PushOptions = {
  allow: [],
  timeoutMs: 10_000,
  maxAttempts: 10,
  backoffMs: 1_000,
  maxConcurrentDeliveries: 256,
};

/** The push options with their defaults. Throws {@link ClusterOptionsError}. */
export function resolvePush(given: Partial<PushOptions> | undefined): PushOptions {
  const push: PushOptions = { ...PUSH_DEFAULTS, ...withoutUndefined(given) };
  requireNetworks(push.allow);
  requireDuration('push.timeoutMs', push.timeoutMs);
  requireWhole('push.maxAttempts', push.maxAttempts, 1, 1_000);
  requireDuration('push.backoffMs', push.backoffMs);
  requireWhole('push.maxConcurrentDeliveries', push.maxConcurrentDeliveries, 1, 10_000);
  return push;
}

function requireNetworks(allow: string[]): void {
  try {
    blockList(allow);
  } catch {
    throw ClusterOptionsError.rule('push.allow', allow, "it must be a list of networks such as '10.0.0.0/8'");
  }
}
