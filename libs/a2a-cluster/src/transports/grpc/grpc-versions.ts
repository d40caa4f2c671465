import { VersionNotSupportedError } from '@a2a-js/sdk/errors';
import {
  type A2ARequestHandler,
  defaultServerCallContextBuilder,
  type ServerCallContextBuilder,
} from '@a2a-js/sdk/server';
import { isLegacyVersion } from '../legacy/legacy-version.js';
import { withoutPatch } from '../requested-version.js';

/** The context of a call to the service of version 1.0. */
export const modernContext = contextOf('1.0', (version) => !isLegacyVersion(version));

/** The context of a call to the service of version 0.3. */
export const legacyContext = contextOf('0.3', isLegacyVersion);

/**
 * Each version has a service of its own, and the SDK looks only whether the agent's card has the version that a call says.
 * One that says the other version would be answered in this one, and its push notifications sent in that.
 */
function contextOf(served: string, speaks: (version: string) => boolean): ServerCallContextBuilder {
  return (call) => {
    const requestedVersion = withoutPatch(call.requestedVersion ?? '');
    const context = defaultServerCallContextBuilder({ ...call, requestedVersion });
    if (speaks(context.requestedVersion)) return context;
    throw new VersionNotSupportedError(
      `The requested A2A protocol version '${context.requestedVersion}' is not supported by this service, which is ${served}'s.`,
    );
  };
}

/**
 * The request handler as the service of version 0.3 needs it: there a history length of 0 and none at all are the same
 * bytes, and the SDK takes both for 0, so that no client would see a history.
 */
export function legacyHandler(handler: A2ARequestHandler): A2ARequestHandler {
  const getTask: A2ARequestHandler['getTask'] = ({ historyLength, ...params }, context) =>
    handler.getTask({ ...params, historyLength: historyLength === 0 ? undefined : historyLength }, context);
  return Object.assign(Object.create(handler) as A2ARequestHandler, { getTask });
}
