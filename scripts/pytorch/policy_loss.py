"""Advantages, weights and losses of docs/reference/training-api.md, written from the formulas, for autograd."""

import torch


def credit(groups, trained_tokens, config):
    """Advantage and weight of each trajectory.

    groups: rewards of each group; trained_tokens[group][trajectory]: trained tokens of all its histories.
    Returns {(group, trajectory): (advantage, weight)} without those that teach nothing.
    """
    advantages = {}
    for g, rewards in enumerate(groups):
        r = torch.tensor(rewards, dtype=torch.float64)
        if (r == r[0]).all():
            continue
        centred = r - r.mean()
        if config.get("scale_rewards", True):
            centred = centred / (r.std(correction=0) + 1e-6)
        for i, a in enumerate(centred.tolist()):
            if a != 0:
                advantages[g, i] = a
    tokens = {key: trained_tokens[key[0]][key[1]] for key in advantages}
    weights = {key: 1 / (count + 1e-6) for key, count in tokens.items()}
    total = sum(tokens.values())
    mean_weight = sum(weights[key] * tokens[key] for key in tokens) / total
    weights = {key: weight / mean_weight for key, weight in weights.items()}
    balance = config.get("advantage_balance", 0.0)
    for key, a in advantages.items():
        if balance > 0 and a <= 0:
            advantages[key] = (1 - balance) * a
        if balance < 0 and a >= 0:
            advantages[key] = (1 + balance) * a
    mean_scale = sum(abs(advantages[key]) * weights[key] * tokens[key] for key in tokens) / total
    return {key: (advantages[key] / mean_scale, weights[key]) for key in tokens}


def row_loss(new, old, reference, advantages, weights, histories, config):
    """Loss of one row of trained tokens; every argument but config is a tensor [N], histories numbers each token's history."""
    is_ppo = config.get("ppo", False)
    epsilon = config.get("epsilon", 0.2 if is_ppo else 1.0)
    epsilon_high = config.get("epsilon_high", epsilon if is_ppo else 4.0)
    low, high = 1 - epsilon, 1 + epsilon_high

    difference = new - old
    ratio = difference.exp()
    level = config.get("importance_sampling_level", "token")
    if level != "token":
        pooled = torch.stack([difference[histories == h].mean() for h in histories]).exp()
        ratio = {
            "sequence": pooled,
            "average": (ratio + pooled) / 2,
            "geometric_average": ratio.sqrt() * pooled.sqrt(),
        }[level]
    cap = config.get("max_negative_advantage_importance_sampling_weight", 0)
    if cap:
        ratio = ratio.clamp(max=cap)
    if config.get("mask_prob_ratio", False):
        ratio = torch.where((low < ratio) & (ratio < high), ratio, torch.zeros_like(ratio))
    tau = config.get("kimi_k2_tau", 0)
    if tau:
        advantages = advantages - tau * difference.detach()
    coefficient = config.get("kl_penalty_coef", 0)
    if coefficient:
        divergence = (new - reference).detach()
        advantages = advantages + coefficient * (divergence.mean() - divergence)
    if is_ppo:
        loss = -torch.min(ratio * advantages, ratio.clamp(low, high) * advantages)
    else:
        loss = -ratio.clamp(low, high).detach() * advantages * new
    truncation = config.get("truncated_importance_sampling", 0)
    if truncation:
        loss = loss * ratio.clamp(max=truncation).detach()
    return (weights * loss).sum() / (len(new) + 1e-6)
