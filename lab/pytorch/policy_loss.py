"""Advantages, weights and losses of docs/reference/training-api.md, written from the formulas, for autograd."""

import torch


def credit(groups, trained_tokens, config):
    """Advantage and weight of each trajectory, for the step's loss sum(weight * loss) / (tokens + 1e-6).

    groups: rewards of each group; trained_tokens[group][trajectory]: trained tokens of all its histories.
    Returns {(group, trajectory): (advantage, weight)} without those that teach nothing.
    """
    is_regularized = any(config.get(key, 0) for key in ("kl_penalty_coef", "entropy_coef", "kimi_k2_tau"))
    advantages = {}
    sampled = {}  # all trajectories of groups that are trained, by what was sampled of them
    for g, rewards in enumerate(groups):
        r = torch.tensor(rewards, dtype=torch.float64)
        is_equal = bool((r == r[0]).all())
        if is_equal and not is_regularized:
            continue
        centred = torch.zeros_like(r) if is_equal else r - r.mean()
        if config.get("scale_rewards", True) and not is_equal:
            centred = centred / (r.std(correction=0) + 1e-6)
        for i, a in enumerate(centred.tolist()):
            sampled[g, i] = trained_tokens[g][i]
            if a != 0 or is_regularized:
                advantages[g, i] = a
    learning = [key for key, a in advantages.items() if a != 0]
    balance = config.get("advantage_balance", 0.0)
    for key, a in advantages.items():
        if balance > 0 and a <= 0:
            advantages[key] = (1 - balance) * a
        if balance < 0 and a >= 0:
            advantages[key] = (1 + balance) * a
    tokens = {key: trained_tokens[key[0]][key[1]] for key in advantages}
    total = sum(tokens.values())
    aggregation = config.get("loss_aggregation", "normalized_trajectory")
    # The policy term is a mean over what rewards train; the other terms are means over everything.
    rewarded_groups = {key[0] for key in learning}
    if aggregation != "normalized_trajectory":
        length = config.get("loss_aggregation_length", 1024)

        def share(key, sampled):
            return {
                "trajectory": lambda: 1 / (len(sampled) * tokens[key]),
                "token": lambda: 1 / sum(sampled.values()),
                "constant": lambda: 1 / (len(sampled) * length),
            }[aggregation]()

        own = {key: count for key, count in sampled.items() if key[0] in rewarded_groups}
        return {
            key: (advantages[key] * (share(key, own) / share(key, sampled) if own else 1), total * share(key, sampled))
            for key in tokens
        }
    scale = sum(abs(advantages[key]) for key in learning) / len(learning)
    weight = {key: 1 / (count + 1e-6) for key, count in tokens.items()}
    mean_weight = sum(weight[key] * tokens[key] for key in tokens) / total
    return {
        key: (advantages[key] / scale * len(tokens) / len(learning), weight[key] / mean_weight) for key in tokens
    }


def row_loss(new, old, reference, advantages, weights, histories, config):
    """Loss of one step's trained tokens; every argument but config is a tensor [N], histories numbers each token's history."""
    is_ppo = config.get("ppo", False)
    epsilon = config.get("epsilon", 0.2 if is_ppo else 1.0)
    epsilon_high = config.get("epsilon_high", epsilon if is_ppo else 4.0)
    low, high = 1 - epsilon, 1 + epsilon_high

    sampled = old
    if config.get("precalculate_logprobs", False):
        old = new.detach()  # the first step of a job: its weights are those that the job starts from
    difference = new - old
    ratio = difference.clamp(-20, 20).exp()
    level = config.get("importance_sampling_level", "token")
    if level != "token":
        pooled = torch.stack([difference[histories == h].mean() for h in histories]).clamp(-20, 20).exp()
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
    if truncation and config.get("precalculate_logprobs", False):
        loss = loss * (old - sampled).exp().clamp(max=truncation).detach()
    return (weights * loss).sum() / (len(new) + 1e-6)
