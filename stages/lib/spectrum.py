"""How many dimensions the rows of a matrix really use."""
import numpy as np


def entropy_rank(weights):
    """exp of the entropy of non-negative `weights` scaled to sum 1; 0 where all are 0."""
    total = weights.sum()
    if total <= 0:
        return 0.0
    shares = weights[weights > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def singular_values(rows, centered):
    """Singular values of `rows` [N, D], largest first; with `centered` of the rows minus their mean, those that are rounding set to 0."""
    rows = np.asarray(rows, dtype=np.float64)
    if not centered:
        return np.linalg.svd(rows, compute_uv=False)
    noise = np.finfo(np.float64).eps * np.abs(rows).max(initial=0.0) * max(rows.shape)  # rounding left over by centering
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    return np.where(values > noise * np.sqrt(len(rows)), values, 0.0)


def effective_rank(rows):
    """exp of the entropy of the eigenvalues of the covariance of `rows` [N, D] (centered), between 0 and min(N - 1, D).

    0 for rows that are all equal, by definition. After Roy and Vetterli 2007. Differs: eigenvalues of the covariance
    (squared singular values), the variance shares of a PCA.
    """
    return entropy_rank(singular_values(rows, centered=True) ** 2)


def rank_me(rows):
    """RankMe: exp of the entropy of the singular values of `rows` [N, D], uncentered (Garrido et al. 2023, equation 3).

    Differs: no 1e-7 is added to the shares; a share of 0 counts 0. 0 where all values are 0.
    """
    return entropy_rank(singular_values(rows, centered=False))
