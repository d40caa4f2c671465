/** Text that is no network, such as `10.0.0.0` without the bits or `10.0.0.0/33`. */
export class NetworkFormatError extends Error {
  override readonly name = 'NetworkFormatError';
  readonly code = 'A2A_NETWORK_FORMAT';
}
