"""Pure mathematics on tensors: entropies, pairwise and joint information, all in nats.

Names say shapes: N or n points, r reference points, K posterior samples, C classes, M label configurations.
"""
