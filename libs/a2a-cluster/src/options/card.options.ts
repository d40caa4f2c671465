import type { AgentCard, AgentCardSignatureGenerator } from '@a2a-js/sdk';
import type { ExtendedAgentCardProvider } from '@a2a-js/sdk/server';
import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import type { GrpcOptions } from './grpc.options.js';

/** An agent card as the options take it: what is left out is filled in, or empty. */
export type AgentCardInput = Partial<AgentCard> & Pick<AgentCard, 'name' | 'description' | 'version'>;

/** What the agent says of itself. */
export interface CardOptions {
  /**
   * What the agent says of itself, with at least a name. `supportedInterfaces` may be left out: they follow from
   * `publicUrl`, the global prefix and the transports. If it is given beside the option `grpc`, one of them must have
   * the binding GRPC. Required.
   */
  agentCard: AgentCardInput;
  /**
   * The URL under which clients reach all replicas, with http or https and without the global prefix. Required where
   * the card has no `supportedInterfaces`. Default: none.
   */
  publicUrl?: string;
  /**
   * The extended card. A card is given to authenticated callers, and others get the plain one. A function is asked for
   * each caller. Default: none.
   */
  extendedAgentCard?: AgentCard | ExtendedAgentCardProvider;
  /** Signs the cards, each time one is given. Default: unsigned. */
  cardSignature?: AgentCardSignatureGenerator;
  /**
   * Whether messages with parts in a media type that the card's `defaultInputModes` do not name are refused with
   * ContentTypeNotSupportedError. A card without input modes refuses none. Default: false, as in the SDK.
   */
  validateInputModes?: boolean;
}

/** What the agent says of itself, with its defaults. */
export interface ResolvedCardOptions {
  agentCard: AgentCardInput;
  publicUrl: string | undefined;
  extendedAgentCard: AgentCard | ExtendedAgentCardProvider | undefined;
  cardSignature: AgentCardSignatureGenerator | undefined;
  validateInputModes: boolean;
}

/** The card's options with their defaults. Throws {@link ClusterOptionsError}. */
export function resolveCard(given: CardOptions, grpc: GrpcOptions | false): ResolvedCardOptions {
  const { agentCard, publicUrl } = given;
  if (!agentCard || typeof agentCard !== 'object' || !agentCard.name) {
    throw ClusterOptionsError.rule('agentCard', agentCard, 'the agent needs a card with at least a name');
  }
  if (publicUrl !== undefined && !isHttpUrl(publicUrl)) {
    throw ClusterOptionsError.rule(
      'publicUrl',
      publicUrl,
      'it must be an absolute URL such as https://agent.example.com',
    );
  }
  if (publicUrl === undefined && !agentCard.supportedInterfaces?.length) {
    throw ClusterOptionsError.rule(
      'publicUrl',
      publicUrl,
      'a card without supportedInterfaces needs the URL under which clients reach the agent',
    );
  }
  if (grpc) requireGrpcInterface(agentCard);
  return {
    agentCard,
    publicUrl,
    extendedAgentCard: given.extendedAgentCard,
    cardSignature: given.cardSignature,
    validateInputModes: given.validateInputModes ?? false,
  };
}

const isHttpUrl = (url: string): boolean => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);

function requireGrpcInterface({ supportedInterfaces = [] }: AgentCardInput): void {
  const bindings = supportedInterfaces.map(({ protocolBinding }) => protocolBinding);
  if (bindings.length === 0 || bindings.includes('GRPC')) return;
  throw ClusterOptionsError.rule(
    'agentCard.supportedInterfaces',
    bindings,
    "with the option grpc one of them must have the protocolBinding GRPC, or the SDK refuses gRPC's calls",
  );
}
