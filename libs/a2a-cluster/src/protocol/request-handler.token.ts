/** Injects the A2A request handler, for transports of your own: an `A2ARequestHandler` of the SDK. */
export const A2A_REQUEST_HANDLER = Symbol('A2A_REQUEST_HANDLER');
