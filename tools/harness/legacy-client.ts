import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { type ClientOptions, fetchAs } from './client.js';
import { withMetadata } from './grpc-client.js';

const legacyCompat = { enabled: true };

/**
 * A client of protocol version 0.3: the SDK's, which is given what such a client knows of the agent's card, and so speaks
 * 0.3 and nothing else.
 */
export async function legacyClientFor(url: string, options: ClientOptions = {}): Promise<Client> {
  const { supportedInterfaces: _, ...card } = await legacyCardOf(url);
  const cardResolver = new DefaultAgentCardResolver({ legacyCompat });
  return new ClientFactory({ transports: [factoryOf(options)], cardResolver }).createFromAgentCard(card as never);
}

/** The card as it is served to a client that says no version. */
export async function legacyCardOf(url: string): Promise<Record<string, unknown>> {
  const response = await fetch(`${url}/.well-known/agent-card.json`);
  return (await response.json()) as Record<string, unknown>;
}

function factoryOf({ transport = 'JSONRPC', user }: ClientOptions) {
  if (transport === 'GRPC') {
    const interceptors = user === undefined ? [] : [withMetadata('authorization', `Bearer ${user}`)];
    return new GrpcTransportFactory({ legacyCompat, grpcCallOptions: { interceptors } });
  }
  const fetchImpl = user === undefined ? fetch : fetchAs(user);
  const factory = transport === 'JSONRPC' ? JsonRpcTransportFactory : RestTransportFactory;
  return new factory({ legacyCompat, fetchImpl });
}
